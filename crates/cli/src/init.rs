//! `inspan init`: a home folder to begin with.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use inspan_core::mask::Mask;

use crate::{
    exit::Failure,
    home::Home,
    out::{DIM, GOOD, Out, styled},
};

const CONFIG: &str = include_str!("init/config.yaml");
const ENV: &str = include_str!("init/env");

/// Makes what is missing; what is there stays as it is.
pub(crate) fn init(home: &Home) -> Result<u8, Failure> {
    let out = Out::new(Mask::new([]));
    let failed = |path: &Path| {
        let what = path.display().to_string();
        move |why| Failure::File { what, why }
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&home.folder)
        .map_err(failed(&home.folder))?;
    for (name, mode, text) in [("config.yaml", 0o644, CONFIG), (".env", 0o600, ENV)] {
        let path = home.folder.join(name);
        let shown = path.display();
        let made = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        match made {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).map_err(failed(&path))?;
                out.answer(&format!("{} {shown}\n", styled(GOOD, "made")))?;
            }
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {
                out.answer(&format!("{} {shown}\n", styled(DIM, "kept")))?;
            }
            Err(why) => return Err(failed(&path)(why)),
        }
    }
    out.answer("Put a key into .env or the environment, then: inspan run \"Hello\"\n")?;
    Ok(0)
}
