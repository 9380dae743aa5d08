//! The HTTP client with a login: what the library sends with it, but for one thing. When a server
//! takes a token no more, each request that waits would renew it; here the first one does, and the
//! others go on with what it got.

use std::{collections::HashMap, sync::Arc};

use reqwest::{
    Client,
    header::{HeaderName, HeaderValue},
};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::{
        auth::{AuthClient, AuthError, AuthorizationManager},
        common::client_side_sse::BoxedSseResponse,
        streamable_http_client::{
            StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
            StreamableHttpResponseLimits,
        },
    },
};

type Failed = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// Sends with a login. Clones are the same.
#[derive(Clone)]
pub(crate) struct Authorized(AuthClient<Client>);

impl Authorized {
    pub(crate) fn new(client: Client, manager: AuthorizationManager) -> Self {
        Self(AuthClient::new(client, manager))
    }

    /// The token that is taken now; `None` for one who is not logged in.
    async fn token(&self) -> Result<Option<String>, Failed> {
        given(self.0.get_access_token().await)
    }

    /// Another token than the one that was refused.
    async fn renewed(&self, refused: &str) -> Result<Option<String>, Failed> {
        let manager = self.0.auth_manager.lock().await;
        let now = given(manager.get_access_token().await)?;
        if now.as_deref() != Some(refused) {
            // Whoever held the lock before got it.
            return Ok(now);
        }
        match manager.refresh_token().await {
            Ok(_) => given(manager.get_access_token().await),
            Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A token, if there is a login.
fn given(token: Result<String, AuthError>) -> Result<Option<String>, Failed> {
    match token {
        Ok(token) => Ok(Some(token)),
        Err(AuthError::AuthorizationRequired) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl StreamableHttpClient for Authorized {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, token, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let post = |token| {
            let (message, headers) = (message.clone(), headers.clone());
            let (uri, session, client) = (uri.clone(), session.clone(), &self.0.http_client);
            client.post_message_with_response_limits(uri, message, session, token, headers, limits)
        };
        let token = self.token().await?;
        match (post(token.clone()).await, token) {
            (Err(StreamableHttpError::AuthRequired(challenge)), Some(refused)) => {
                match self.renewed(&refused).await? {
                    Some(token) => post(Some(token)).await,
                    None => Err(StreamableHttpError::AuthRequired(challenge)),
                }
            }
            (answer, _) => answer,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failed> {
        self.0.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, Failed> {
        self.0.get_stream(uri, session, last_event, token, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        event_bytes_max: usize,
    ) -> Result<BoxedSseResponse, Failed> {
        let client = &self.0;
        client
            .get_stream_with_max_sse_event_size(
                uri,
                session,
                last_event,
                token,
                headers,
                event_bytes_max,
            )
            .await
    }
}
