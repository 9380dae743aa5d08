//! What clients meet: tools and agents of ours, served.

mod asks;
mod calls;
mod http;
mod world;
