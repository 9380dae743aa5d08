//! What a bucket promises beyond the contract, asked of a real server.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use inspan_core::{blobs::Blobs, hash::Hash, store::StoreError};
use inspan_store::{Files, S3, S3Place, Watched};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::{bytes, later_ms, name_of, now_ms};

/// The server's address.
fn server() -> String {
    std::env::var("INSPAN_TEST_S3").expect(
        "INSPAN_TEST_S3 is not set: run `./test tests`, which starts an S3 server, or set it to the \
         address of one that takes any key",
    )
}

fn http() -> reqwest::Client {
    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// The place of a new bucket, which is named after its test.
pub(crate) async fn place(name: &str) -> S3Place {
    let server = server();
    let bucket = format!("{}-{}", name.replace('_', "-"), std::process::id());
    let made = http().put(format!("{server}/{bucket}")).send().await.unwrap();
    assert!(made.status().is_success(), "{}", made.status());
    S3Place {
        bucket,
        prefix: "some/where".to_owned(),
        endpoint: Some(server),
        region: "us-east-1".to_owned(),
        access_key: "test".to_owned(),
        secret_key: "test-secret".into(),
        session_token: None,
    }
}

/// Another client of the bucket.
async fn object(place: &S3Place, name: &str, bytes: &'static [u8]) {
    let url = format!("{}/{}/{name}", place.endpoint.as_deref().unwrap(), place.bucket);
    assert!(http().put(url).body(bytes).send().await.unwrap().status().is_success());
}

/// What a person was told.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn watched(&self, first: impl Blobs + 'static, second: Option<Files>) -> Watched {
        let notes = self.0.clone();
        let second = second.map(|files| Arc::new(files) as Arc<dyn Blobs>);
        let told = Arc::new(move |note: &str| notes.lock().unwrap().push(note.to_owned()));
        Watched::new(Arc::new(first), second, told)
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[tokio::test]
async fn names_in_a_bucket_are_those_of_a_folder() {
    let place = place("names_in_a_bucket").await;
    let s3 = S3::new(&place).unwrap();
    let hash = s3.put(bytes("a picture")).await.unwrap();
    // Written by another client under the name, it is found.
    let other = Hash::of_bytes(b"by another");
    object(&place, &format!("some/where/{}", name_of(&other)), b"by another").await;
    assert_eq!(s3.get(&other).await.unwrap(), Some(bytes("by another")));
    // What is none of ours is left alone.
    object(&place, "some/where/ab/readme.txt", b"hello").await;
    object(&place, "elsewhere", b"hello").await;
    let mut all = [hash, other];
    all.sort_unstable();
    assert_eq!(s3.old(&Hash::default(), later_ms(), 9).await.unwrap(), all);
    assert!(!s3.remove(&hash, now_ms() - 60_000).await.unwrap());
    assert_eq!(format!("{s3:?}"), format!("S3(s3://{}/some/where)", place.bucket));
    assert!(!format!("{place:?}").contains("test-secret"));
}

#[tokio::test]
async fn a_damaged_object_counts_as_lost_and_is_told_once() {
    let place = place("a_damaged_object").await;
    let s3 = S3::new(&place).unwrap();
    let hash = Hash::of_bytes(b"a picture");
    let name = name_of(&hash);
    object(&place, &format!("some/where/{name}"), b"a pikture").await;
    let damaged =
        StoreError::BlobDamaged { what: format!("s3://{}/some/where/{name}", place.bucket) };
    assert_eq!(s3.get(&hash).await.unwrap_err(), damaged);

    let (notes, folder) = (Notes::default(), tempfile::tempdir().unwrap());
    let second = Files::new(folder.path());
    let watched = notes.watched(s3, Some(second.clone()));
    assert_eq!(watched.get(&hash).await.unwrap(), None);
    assert_eq!(watched.get(&hash).await.unwrap(), None);
    assert_eq!(notes.taken(), [damaged.to_string()]);
    // The second place may still have it.
    second.put(bytes("a picture")).await.unwrap();
    assert_eq!(watched.get(&hash).await.unwrap(), Some(bytes("a picture")));
    assert_eq!(notes.taken(), [""; 0]);
}

#[tokio::test]
async fn a_folder_takes_over_while_the_server_is_away() {
    let mut place = place("a_folder_takes_over").await;
    let mut way = Way::to(&server()).await;
    place.endpoint = Some(way.url());
    let (notes, folder) = (Notes::default(), tempfile::tempdir().unwrap());
    let files = Files::new(folder.path());
    let s3 = S3::new(&place).unwrap();
    let watched = notes.watched(s3.clone(), Some(files.clone()));
    let before = watched.put(bytes("before")).await.unwrap();
    assert_eq!(files.get(&before).await.unwrap(), None);

    way.close().await;
    let during = watched.put(bytes("during")).await.unwrap();
    watched.put(bytes("during, too")).await.unwrap();
    assert_eq!(files.get(&during).await.unwrap(), Some(bytes("during")));
    assert_eq!(watched.get(&during).await.unwrap(), Some(bytes("during")));
    // It may be where nobody can look now: it is not lost.
    for _ in 0..2 {
        assert!(matches!(watched.get(&before).await, Err(StoreError::Other { .. })));
    }
    let said = notes.taken();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with(&format!("writing to s3://{}/some/where: ", place.bucket)));
    assert!(said[0].ends_with("; blobs are kept in the home folder meanwhile"), "{said:?}");

    // Another process, when the server is there again: it looks into both.
    way.open().await;
    let later = notes.watched(s3, Some(files));
    assert_eq!(later.get(&before).await.unwrap(), Some(bytes("before")));
    assert_eq!(later.get(&during).await.unwrap(), Some(bytes("during")));
    assert_eq!(notes.taken(), [""; 0]);
}

/// A way to the server that can be closed.
struct Way {
    server: String,
    address: SocketAddr,
    going: JoinSet<()>,
}

impl Way {
    async fn to(url: &str) -> Self {
        let server = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut way = Self { server, address: any, going: JoinSet::new() };
        way.open().await;
        way
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn open(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.address = listener.local_addr().unwrap();
        let server = self.server.clone();
        self.going.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut from, _)) = listener.accept().await {
                let mut to = TcpStream::connect(&server).await.unwrap();
                connections.spawn(async move {
                    // Either side may hang up.
                    let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                });
            }
        });
    }

    async fn close(&mut self) {
        self.going.shutdown().await;
    }
}
