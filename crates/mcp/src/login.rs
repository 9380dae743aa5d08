//! Logins at servers on the network (OAuth): how a person gets one, and where it is kept. Each is a
//! secret: a file that only its owner can read, and in no message.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use inspan_core::hash::Hash;
use reqwest::{Url, header::WWW_AUTHENTICATE};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, CredentialRefreshGuard, CredentialStore,
    OAuthState, StoredCredentials,
};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::{
    config::HttpLink,
    connection::with_causes,
    http::{self, plain_client},
};

/// Time for the person to log in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(600);
/// Time for what a login needs to know of a server, of those that are known already.
const KNOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of the request by which a browser comes back.
const BACK_BYTES_MAX: usize = 16 * 1024;
/// What the person reads in their browser at the end.
const DONE_PAGE: &str = "Inspan is logged in, or was refused: it says so where you called it. This page \
                         can be closed.";

/// The login at one server.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// The file; without one nothing is kept, and nobody is logged in.
    file: Option<PathBuf>,
}

impl Login {
    /// The login at the server of this address, in this folder.
    pub(crate) fn of(folder: Option<&Path>, link: &HttpLink) -> Self {
        let name = || format!("{}.json", Hash::of(&[link.url().as_bytes()]));
        Self { file: folder.map(|folder| folder.join(name())) }
    }

    /// What sends the login along with requests. Where there is none, they go without.
    ///
    /// # Errors
    /// The address, or the client for it, makes no sense.
    pub(crate) async fn manager(&self, link: &HttpLink) -> Result<AuthorizationManager, String> {
        let mut manager = self.new_manager(link).await?;
        if self.file.as_ref().is_some_and(|file| file.exists()) {
            // What can't be found out now is missed when the login has to be renewed.
            let _ = timeout(KNOWN_TIMEOUT, manager.initialize_from_store()).await;
        }
        Ok(manager)
    }

    async fn new_manager(&self, link: &HttpLink) -> Result<AuthorizationManager, String> {
        http::crypto();
        let manager = AuthorizationManager::new(link.url()).await;
        let mut manager = manager.map_err(|error| with_causes(&error))?;
        manager.set_credential_store(self.clone());
        Ok(manager)
    }

    /// Gets a login: the person opens the address that is `shown`, agrees there, and their browser
    /// comes back to a port of this machine. `scopes` are asked for beside those that the server
    /// names.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn get(
        &self,
        link: &HttpLink,
        scopes: &[String],
        shown: impl FnOnce(&str),
    ) -> Result<(), String> {
        let port = |error: io::Error| format!("no port of this machine is free: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(port)?;
        let back = format!("http://{}/callback", listener.local_addr().map_err(port)?);
        let mut request = AuthorizationRequest::new(&back).with_client_name("Inspan");
        request = request.with_initial_scope_selection().with_scopes(self.with_granted(scopes));
        if let Some(client) = link.client() {
            request = request.with_preregistered_client(&client.id);
            if let Some(secret) = &client.secret {
                request = request.with_client_secret(secret.expose_secret());
            }
        }
        if let Some(challenge) = challenge(link).await? {
            request = request.with_challenge(challenge);
        }
        let mut state = OAuthState::Unauthorized(self.new_manager(link).await?);
        state.start_authorization(request).await.map_err(|error| with_causes(&error))?;
        let address = state.get_authorization_url().await.map_err(|error| with_causes(&error))?;
        shown(&address);
        let came = timeout(LOGIN_TIMEOUT, came_back(&listener, &back)).await;
        let came = came.map_err(|_| "nobody came back from the page in time".to_owned())??;
        state.handle_callback_url(&came).await.map_err(|error| with_causes(&error))
    }

    /// These rights and those that were granted before, which a new login must not lose; none for
    /// those that the server names.
    fn with_granted(&self, scopes: &[String]) -> Vec<String> {
        let before = self.read().ok().flatten().filter(|_| !scopes.is_empty());
        let mut all = before.map(|login| login.granted_scopes).unwrap_or_default();
        all.extend(scopes.iter().filter(|scope| !all.contains(scope)).cloned().collect::<Vec<_>>());
        all
    }

    /// Forgets it. True when there was one.
    ///
    /// # Errors
    /// The file can't be removed.
    pub(crate) fn forget(&self) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        match fs::remove_file(file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&self) -> io::Result<Option<StoredCredentials>> {
        let Some(file) = &self.file else { return Ok(None) };
        match fs::read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(io::Error::from),
        }
    }

    fn write(&self, login: &StoredCredentials) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if let Some(folder) = file.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let beside = file.with_extension(format!("{}.new", std::process::id()));
        let mut options = OpenOptions::new();
        let mut to = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        to.write_all(&serde_json::to_vec(login)?)?;
        fs::rename(&beside, file)
    }
}

/// The secrets of all logins in a folder, as far as they can be read.
pub(crate) fn secrets(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let texts = entries.flatten().filter_map(|entry| fs::read(entry.path()).ok());
    let values = texts.filter_map(|text| serde_json::from_slice::<Value>(&text).ok());
    let tokens = values.flat_map(|login| {
        ["access_token", "refresh_token"]
            .map(|name| login.get("token_response")?.get(name)?.as_str().map(str::to_owned))
    });
    tokens.flatten().collect()
}

#[async_trait]
impl CredentialStore for Login {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        self.read().map_err(|error| in_store(&error))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.write(&credentials).map_err(|error| in_store(&error))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.forget().map(drop).map_err(|error| in_store(&error))
    }

    /// One process renews it at a time.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let Some(file) = self.file.clone() else { return Ok(None) };
        let lock = move || {
            let lock = File::create(file.with_extension("lock"))?;
            lock.lock()?;
            Ok::<_, io::Error>(lock)
        };
        let locked = tokio::task::spawn_blocking(lock).await;
        let locked = locked.map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
        Ok(Some(CredentialRefreshGuard::new(locked.map_err(|error| in_store(&error))?)))
    }
}

fn in_store(error: &io::Error) -> AuthError {
    AuthError::CredentialStoreError(format!("the login can't be read or kept: {error}"))
}

/// What a server says to one who is not logged in: where to log in, and for what.
async fn challenge(link: &HttpLink) -> Result<Option<String>, String> {
    // Some let anybody in, and ask who it is only then.
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    let request = plain_client()?
        .post(link.url())
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .timeout(KNOWN_TIMEOUT)
        .body(body.to_string());
    let answer = request.send().await.map_err(|error| with_causes(&error))?;
    let header = answer.headers().get(WWW_AUTHENTICATE);
    Ok(header.and_then(|header| header.to_str().ok()).map(str::to_owned))
}

/// Waits until a browser comes back, and gives the address with which it did.
async fn came_back(listener: &TcpListener, back: &str) -> Result<String, String> {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        // Browsers also ask for pictures of the page.
        let Some(path) = asked_path(&mut stream).await.filter(|path| path.starts_with("/callback"))
        else {
            answer(&mut stream, "404 Not Found", "There is nothing here.").await;
            continue;
        };
        answer(&mut stream, "200 OK", DONE_PAGE).await;
        let base = back.strip_suffix("/callback").unwrap_or(back);
        let url = Url::parse(&format!("{base}{path}")).map_err(|error| error.to_string())?;
        let parameter = |name: &str| {
            url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        if let Some(error) = parameter("error") {
            let more =
                parameter("error_description").map_or(String::new(), |why| format!(": {why}"));
            return Err(format!("the login was refused: {error}{more}"));
        }
        return Ok(url.into());
    }
}

/// The path that a browser asks for.
async fn asked_path(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let read = async {
        while !head.windows(2).any(|end| end == b"\r\n") && head.len() < BACK_BYTES_MAX {
            if stream.read_buf(&mut head).await.ok()? == 0 {
                break;
            }
        }
        Some(())
    };
    timeout(KNOWN_TIMEOUT, read).await.ok()??;
    let line = String::from_utf8_lossy(&head);
    let mut words = line.split_whitespace();
    words.next().filter(|method| *method == "GET")?;
    words.next().map(str::to_owned)
}

async fn answer(stream: &mut TcpStream, status: &str, text: &str) {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        text.len()
    );
    // Whoever asked may be gone.
    let _ = stream.write_all((head + text).as_bytes()).await;
    let _ = stream.shutdown().await;
}
