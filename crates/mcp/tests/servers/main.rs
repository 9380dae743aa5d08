//! The client against servers that run: bad ones of our own, and those that people use.

mod bad;
mod http;
mod input;
mod login;
mod reads;
mod real;
mod world;
