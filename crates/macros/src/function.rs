//! What a function says of the tool that is made of it.

use proc_macro2::{Ident, TokenStream};
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericArgument, ItemFn, Lit, Meta, Pat, PatType,
    PathArguments, ReturnType, Type, ext::IdentExt, spanned::Spanned,
};

use crate::options::Options;

/// A function that can be a tool.
pub(crate) struct Function {
    /// As it was written, without the attributes that are ours.
    pub(crate) item: ItemFn,
    /// The tool's name.
    pub(crate) name: String,
    pub(crate) description: String,
    /// In the order of the signature.
    pub(crate) parameters: Vec<Parameter>,
    /// Whether a type called `Result` is returned.
    pub(crate) returns_result: bool,
}

/// What is passed at one place of the call.
pub(crate) enum Parameter {
    /// `&Context`.
    Context,
    /// An argument that the model writes.
    Argument(Argument),
}

pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    Required(Type),
    /// `Option` of this.
    Optional(Type),
    /// `#[default(…)]`.
    Defaulted(Type, Expr),
}

impl Function {
    pub(crate) fn read(item: TokenStream, options: &Options) -> syn::Result<Self> {
        let mut item: ItemFn = syn::parse2(item.clone()).map_err(|_| {
            Error::new_spanned(item, "`#[tool]` stands before a function, which becomes the tool")
        })?;
        check_signature(&item)?;
        let description = take_docs(&mut item.attrs.clone());
        if description.is_empty() {
            return Err(Error::new_spanned(
                &item.sig.ident,
                "a tool needs a description, which the model reads: write a doc comment (`/// …`) \
                 before the function that says what it does and when to use it",
            ));
        }
        let inputs = item.sig.inputs.iter_mut();
        let parameters: Vec<_> = inputs.map(parameter).collect::<syn::Result<_>>()?;
        let name = match &options.name {
            Some(name) => name.value(),
            None => item.sig.ident.unraw().to_string(),
        };
        let returns_result = match &item.sig.output {
            ReturnType::Type(_, returned) => last_segment(returned, "Result").is_some(),
            ReturnType::Default => false,
        };
        let function = Self { item, name, description, parameters, returns_result };
        function.check(options)?;
        Ok(function)
    }

    pub(crate) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Argument(argument) => Some(argument),
            Parameter::Context => None,
        })
    }

    fn check(&self, options: &Options) -> syn::Result<()> {
        let is_context = |parameter: &&Parameter| matches!(parameter, Parameter::Context);
        if self.parameters.iter().filter(is_context).count() > 1 {
            let message = "a tool has one context: leave out the other `&Context`";
            return Err(Error::new_spanned(&self.item.sig.inputs, message));
        }
        if self.name.len() > 64 || !self.name.is_ascii() {
            let message = "no provider takes this name: give it one with `name = \"…\"`, 1 to 64 \
                 of A-Z, a-z, 0-9, `_` and `-`";
            return Err(Error::new_spanned(&self.item.sig.ident, message));
        }
        if let Some(resource) = &options.resource
            && !self.arguments().any(|argument| argument.name == resource.value())
        {
            let names: Vec<_> = self.arguments().map(|argument| argument.name.as_str()).collect();
            let message = format!(
                "`resource` names the parameter that says what a call works on; there are: {}",
                names.join(", ")
            );
            return Err(Error::new(resource.span(), message));
        }
        Ok(())
    }
}

fn check_signature(item: &ItemFn) -> syn::Result<()> {
    let sig = &item.sig;
    if let Some(generic) = sig.generics.params.first() {
        let message = "a tool has one form of arguments: write the types in place of generics and \
             lifetimes";
        return Err(Error::new_spanned(generic, message));
    }
    if let Some(receiver) = sig.receiver() {
        let message = "a tool is a function without `self`: take what it needs from a `&Context` \
             parameter (`context.shared::<Shop>()?`), and lend it with `Agent::shared`";
        return Err(Error::new_spanned(receiver, message));
    }
    if let Some(variadic) = &sig.variadic {
        return Err(Error::new_spanned(variadic, "a tool has a fixed list of parameters"));
    }
    if let Some(constness) = &sig.constness {
        return Err(Error::new_spanned(constness, "write a plain or an `async` function"));
    }
    Ok(())
}

/// Reads a parameter and leaves it without the attributes that only we understand.
fn parameter(input: &mut FnArg) -> syn::Result<Parameter> {
    let typed = match input {
        FnArg::Typed(typed) => typed,
        FnArg::Receiver(receiver) => {
            return Err(Error::new_spanned(receiver, "a tool is a function without `self`"));
        }
    };
    let description = take_docs(&mut typed.attrs);
    let default = take_default(&mut typed.attrs)?;
    if is_context(&typed.ty) {
        return Ok(Parameter::Context);
    }
    let ident = ident_of(typed)?;
    let kind = match (default, last_segment(&typed.ty, "Option")) {
        (Some(default), _) => Kind::Defaulted((*typed.ty).clone(), default),
        (None, Some(Some(inner))) => Kind::Optional(inner),
        (None, _) => Kind::Required((*typed.ty).clone()),
    };
    let name = ident.unraw().to_string();
    Ok(Parameter::Argument(Argument { name, description, kind }))
}

fn ident_of(typed: &PatType) -> syn::Result<Ident> {
    let message = match &*typed.ty {
        Type::Reference(reference) if last_segment(&reference.elem, "Context").is_some() => {
            Some("the context is lent without `mut`: write `&Context`")
        }
        Type::Reference(_) => Some(
            "an argument is owned: take `String` in place of `&str`, `Vec<T>` in place of `&[T]`; \
             what the program lends (a pool, a client) comes from a `&Context` parameter: \
             `context.shared::<Pool>()?`",
        ),
        Type::ImplTrait(_) => Some("the model is told of one type: write it in place of `impl …`"),
        _ => None,
    };
    if let Some(message) = message {
        return Err(Error::new_spanned(&typed.ty, message));
    }
    match &*typed.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => Ok(pat.ident.clone()),
        pat => Err(Error::new(
            pat.span(),
            "an argument needs a name, by which the model gives it: write `name: Type`, and take \
             it apart in the body",
        )),
    }
}

/// Whether it is `&Context`, by whatever path.
fn is_context(ty: &Type) -> bool {
    match ty {
        Type::Reference(reference) => {
            reference.mutability.is_none() && last_segment(&reference.elem, "Context").is_some()
        }
        _ => false,
    }
}

/// Whether the type's path ends in `name`, and its one generic argument.
fn last_segment(ty: &Type, name: &str) -> Option<Option<Type>> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Some(None) };
    Some(match arguments.args.first() {
        Some(GenericArgument::Type(inner)) => Some(inner.clone()),
        _ => None,
    })
}

/// Takes the doc comments out of `attrs`, as one text.
fn take_docs(attrs: &mut Vec<Attribute>) -> String {
    let mut lines = Vec::new();
    attrs.retain(|attr| {
        if let Meta::NameValue(meta) = &attr.meta
            && meta.path.is_ident("doc")
            && let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &meta.value
        {
            let text = text.value();
            lines.push(text.strip_prefix(' ').unwrap_or(&text).trim_end().to_owned());
            return false;
        }
        true
    });
    lines.join("\n").trim().to_owned()
}

/// Takes `#[default(…)]` out of `attrs`.
fn take_default(attrs: &mut Vec<Attribute>) -> syn::Result<Option<Expr>> {
    let Some(at) = attrs.iter().position(|attr| attr.path().is_ident("default")) else {
        return Ok(None);
    };
    let attr = attrs.remove(at);
    attr.parse_args().map(Some).map_err(|error| {
        Error::new(error.span(), "write the value of an argument left out: `#[default(10)]`")
    })
}
