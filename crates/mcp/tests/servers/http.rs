//! Servers on the network that lead elsewhere, want to know who asks, or are not there.

use inspan_mcp::{HttpLink, Link};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::world::World;

/// The address of a server that gives every request this answer.
async fn answers(head: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 16 * 1024];
            if stream.read(&mut request).await.is_ok() {
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    });
    format!("http://{address}/mcp")
}

#[tokio::test]
async fn what_leads_elsewhere_or_asks_who_is_there_is_left_out() {
    let world = World::new();
    let elsewhere = answers("307 Temporary Redirect\r\nlocation: http://192.0.2.1/mcp").await;
    let round = answers("307 Temporary Redirect\r\nlocation: /mcp").await;
    let closed = answers("401 Unauthorized\r\nwww-authenticate: Bearer").await;
    let table = [
        (elsewhere, "it redirects to another place, 192.0.2.1, which is refused"),
        (round, "it redirects more than 5 times"),
        (closed, "headers: { Authorization: \"Bearer ${TOKEN}\" }"),
        ("http://127.0.0.1:1/mcp".to_owned(), "Connection refused"),
    ];
    for (url, expected) in table {
        let with_login = url.replace("http://", "http://me:s3cret-pass@");
        let link = HttpLink::new(&with_login, Default::default()).unwrap();
        let notice = world.notice(&world.config("web", Link::Http(link))).await;
        assert!(notice.starts_with("the MCP server `web` is left out: "), "{notice}");
        assert!(notice.contains(expected), "{notice}");
        assert!(!notice.contains("s3cret") && !notice.contains("rmcp"), "{notice}");
    }
}
