//! The client against servers that run: bad ones of our own, and those that people use.

mod bad;
mod http;
mod real;
mod world;
