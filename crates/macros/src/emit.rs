//! Writes the tool: a unit type of the function's name, with the function as `call`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::{Attribute, Expr, ExprLit, FnArg, Lit, Pat};

use crate::{
    function::{Argument, Function, Kind, Parameter},
    options::Options,
};

pub(crate) fn tool(function: &Function, options: &Options) -> TokenStream {
    let item = &function.item;
    let (vis, ident) = (&item.vis, &item.sig.ident);
    let (docs, attrs): (Vec<_>, Vec<_>) =
        item.attrs.iter().partition::<Vec<&Attribute>, _>(|attr| attr.path().is_ident("doc"));
    let mut sig = item.sig.clone();
    sig.ident = Ident::new("call", ident.span());
    let block = &item.block;
    let mut variables = vec![ident.clone()];
    let names = item.sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => match &*typed.pat {
            Pat::Ident(pat) => Some(pat.ident.clone()),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    });
    variables.extend(names.filter(|name| name != ident));
    let about = format!("The function `{ident}`, as it was written.");
    let implementation = implementation(function, options);
    quote! {
        #(#docs)*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug)]
        #vis struct #ident;

        const _: () = {
            // Nearer than the value of a tool of the same name, and unlike it no obstacle to a
            // variable.
            #(#[allow(dead_code, non_snake_case)] fn #variables() {})*

            impl #ident {
                #[doc = #about]
                // Arguments are owned, whatever the body does with them.
                #[allow(clippy::needless_pass_by_value, clippy::unused_async)]
                #(#attrs)*
                #vis #sig #block
            }
        };

        const _: () = { #implementation };
    }
}

fn implementation(function: &Function, options: &Options) -> TokenStream {
    let tool = &function.item.sig.ident;
    let parameters = parameters(function);
    let spec = spec(function, options);
    let check = check(function);
    let run = run(function);
    quote! {
        use ::inspan::__private;

        #parameters

        #[automatically_derived]
        impl __private::Tool for #tool {
            fn spec(&self) -> __private::Arc<__private::ToolSpec> {
                static SPEC: __private::LazyLock<__private::Arc<__private::ToolSpec>> =
                    __private::LazyLock::new(|| __private::Arc::new(#spec));
                __private::Arc::clone(&SPEC)
            }

            fn check(
                &self,
                arguments: __private::Value,
            ) -> ::core::result::Result<__private::Value, __private::String> {
                #check
            }

            fn run(&self, call: __private::Invocation) -> __private::Run {
                __private::Box::pin(async move { #run })
            }
        }
    }
}

/// One function that knows each argument's type, so that a type without a schema is told once.
fn parameters(function: &Function) -> TokenStream {
    if function.arguments().next().is_none() {
        return TokenStream::new();
    }
    let mut types = Vec::new();
    let mut values = Vec::new();
    for Argument { name, description, kind, .. } in function.arguments() {
        match kind {
            Kind::Required(ty) => {
                types.push(quote!(#ty));
                values.push(quote!(__private::required::<#ty>(#name, #description)));
            }
            Kind::Optional(ty) => {
                types.push(quote!(::core::option::Option<#ty>));
                values.push(quote!(__private::optional::<#ty>(#name, #description)));
            }
            Kind::Defaulted(ty, default) => {
                let default = match default {
                    Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                        quote!(::core::convert::Into::into(#text))
                    }
                    default => quote!(#default),
                };
                types.push(quote!(#ty));
                values.push(quote!(__private::defaulted::<#ty>(#name, #description, || #default)));
            }
        }
    }
    quote! {
        fn parameters() -> (#(__private::Parameter<#types>,)*) {
            (#(#values,)*)
        }
    }
}

fn spec(function: &Function, options: &Options) -> TokenStream {
    let Function { name, description, .. } = function;
    let (taken, shapes) = shapes(function);
    let effects = options.effects.as_ref().map(|effects| {
        quote!(effects: __private::Effects { #(#effects: true,)* ..__private::Effects::NONE },)
    });
    let repeat = options.repeat.as_ref().map(|repeat| quote!(repeat: __private::Repeat::#repeat,));
    let timeout = options.timeout_ms.map(|ms| quote!(timeout_ms_max: #ms,));
    let polls = options.polls.then(|| quote!(polls: true,));
    let resource = options.resource.as_ref().map(|resource| {
        quote!(resource: ::core::option::Option::Some(__private::String::from(#resource)),)
    });
    quote! {{
        #taken
        __private::ToolSpec {
            input: __private::input_schema(#shapes),
            #effects #repeat #timeout #polls #resource
            ..__private::ToolSpec::new(#name, #description)
        }
    }}
}

fn check(function: &Function) -> TokenStream {
    let (taken, shapes) = shapes(function);
    quote! {
        #taken
        __private::check(arguments, #shapes)
    }
}

/// The parameters in variables, and a list of them without their types.
fn shapes(function: &Function) -> (TokenStream, TokenStream) {
    let names = locals("p", function);
    (taken(&names), quote!(&[#(&#names as &dyn __private::Shape),*]))
}

fn taken(names: &[Ident]) -> TokenStream {
    match names {
        [] => TokenStream::new(),
        names => quote!(let (#(#names,)*) = parameters();),
    }
}

fn run(function: &Function) -> TokenStream {
    let tool = &function.item.sig.ident;
    let (names, values) = (locals("p", function), locals("a", function));
    let taken = taken(&names);
    let arguments = if names.is_empty() { quote!(_) } else { quote!(mut arguments) };
    let mut passed = values.iter();
    let passed: Vec<_> = function
        .parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Context => quote!(&context),
            Parameter::Argument(_) => {
                let value = passed.next();
                quote!(#value)
            }
        })
        .collect();
    let waited = function.item.sig.asyncness.map(|_| quote!(.await));
    let result = if function.returns_result {
        quote!(__private::from_result(outcome))
    } else {
        // An alias of `Result` is known by its type alone.
        quote!({
            use __private::{ResultKind as _, ValueKind as _};
            (&outcome).__inspan_end().finish(outcome)
        })
    };
    quote! {
        #taken
        let (context, #arguments) = __private::begin(call);
        #(let #values = #names.take(&mut arguments)?;)*
        let outcome = #tool::call(#(#passed),*) #waited;
        #result
    }
}

/// A name for each argument that no code of the function can mean.
fn locals(letter: &str, function: &Function) -> Vec<Ident> {
    let name = |(at, _)| Ident::new(&format!("{letter}{at}"), Span::mixed_site());
    function.arguments().enumerate().map(name).collect()
}
