//! What clients meet: tools and agents of ours, served.

mod agent;
mod asks;
mod calls;
mod http;
mod world;
