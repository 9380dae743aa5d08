//! Chain: each step works on what the one before it gave, and plain code checks in between.

use std::error::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let agent = programs::agent("chain")?;
    let names = agent.act("Three names for a bakery by the sea, one a line, nothing else.").await?;
    let names = names.answer()?;
    println!("{names}");

    let Some(shortest) = names.lines().min_by_key(|name| name.chars().count()) else {
        return Err("there are no names".into());
    };
    let slogan = agent.act(format!("A slogan of at most five words for \"{shortest}\".")).await?;
    let slogan = slogan.answer()?;
    println!("{shortest}: {slogan}");

    let words = slogan.split_whitespace().count();
    if words > 5 {
        return Err(format!("a slogan of {words} words is too long").into());
    }
    let translated = agent.act(format!("In Portuguese, nothing else: {slogan}")).await?;
    println!("{shortest}: {}", translated.answer()?);
    Ok(())
}
