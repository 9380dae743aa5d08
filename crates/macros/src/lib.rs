//! `#[tool]`: a function as a tool. Its documentation, for those who use it, is that of
//! `inspan::tool`.
//!
//! The path of a function through here: `options` reads what stands in the attribute, `function`
//! reads the signature and the doc comments, `emit` writes the tool. What is wrong is a compile
//! error at its place that says what to write. What a tool does at run time is not here but in
//! `inspan`, so that the code that is written stays small.

mod emit;
mod function;
mod options;

use proc_macro::TokenStream;

use crate::{function::Function, options::Options};

/// Makes a tool of a function. See `inspan::tool`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = Options::read(options.into())
        .and_then(|options| Ok((Function::read(item.into(), &options)?, options)))
        .map(|(function, options)| emit::tool(&function, &options));
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}
