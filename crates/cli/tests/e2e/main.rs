//! The command as people meet it: the program itself, started, killed and started again, against a
//! scripted server, with programs as tools.

mod archive;
mod asks;
mod canary;
mod catalogue;
mod codes;
mod config;
mod damage;
mod failures;
mod first;
mod kill;
mod matrix;
mod mcp;
mod model;
mod pictures;
mod serve;
mod sessions;
mod stores;
mod wires;
mod workers;
mod world;
