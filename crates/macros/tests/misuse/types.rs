use inspan::tool;

struct City;

/// Takes what has no schema.
#[tool]
async fn argument(city: City) { drop(city) }

/// Gives what the model can't read.
#[tool]
async fn output() -> City {
    City
}

/// Fails with what the model can't read.
#[tool]
async fn failure() -> Result<String, City> {
    Err(City)
}

fn main() {}
