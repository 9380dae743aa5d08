//! A model's server that adds as little as it can: its replies are made beforehand, each connection
//! has a thread, and the time is taken at the edges of each request.

use std::{
    hash::{DefaultHasher, Hasher},
    io::{self, Error, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How long the next request of an open connection is waited for.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A request and its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// When the last byte of the request was here.
    pub(crate) arrived: Instant,
    /// When the reply, which is one piece, was handed to the system.
    pub(crate) replied: Instant,
    /// Bytes of the request, its head included.
    pub(crate) bytes: usize,
    /// A hash of its body: equal for equal ones.
    pub(crate) body: u64,
    /// The number of the connection that brought it, from 0.
    pub(crate) connection: usize,
}

/// A server on a thread of its own.
pub(crate) struct Server {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Vec<Exchange>>>,
}

impl Server {
    /// Starts a server that answers with `replies`, in order, each `think` after its request.
    /// `look` is called with the number of each request, from 0, before it is answered.
    ///
    /// # Errors
    /// No port can be had.
    pub(crate) fn start(
        replies: Vec<Vec<u8>>,
        think: Duration,
        look: impl FnMut(usize) + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let over = Arc::new(AtomicBool::new(false));
        let serving = Serving { replies, think, look, exchanges: Vec::new() };
        let is_over = Arc::clone(&over);
        let thread = thread::spawn(move || accept(&listener, serving, &is_over));
        Ok(Self { address, over, thread })
    }

    /// Its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has been exchanged. Waits until its client has closed the last connection.
    ///
    /// # Errors
    /// A connection broke.
    pub(crate) fn finish(self) -> io::Result<Vec<Exchange>> {
        self.over.store(true, Ordering::Release);
        // One more connection wakes a thread that waits for one; one that has ended tells why.
        let _ = TcpStream::connect(self.address);
        self.thread.join().map_err(|_| Error::other("the server's thread broke down"))?
    }
}

struct Serving<F> {
    replies: Vec<Vec<u8>>,
    think: Duration,
    look: F,
    exchanges: Vec<Exchange>,
}

fn accept<F: FnMut(usize) + Send + 'static>(
    listener: &TcpListener,
    serving: Serving<F>,
    over: &AtomicBool,
) -> io::Result<Vec<Exchange>> {
    let serving = Arc::new(Mutex::new(serving));
    let mut connections = Vec::new();
    for (connection, stream) in listener.incoming().enumerate() {
        if over.load(Ordering::Acquire) {
            break;
        }
        let (stream, serving) = (stream?, Arc::clone(&serving));
        connections.push(thread::spawn(move || serve(connection, stream, &serving)));
    }
    for connection in connections {
        connection.join().map_err(|_| Error::other("a connection's thread broke down"))??;
    }
    let mut serving = serving.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut serving.exchanges))
}

fn serve<F: FnMut(usize)>(
    connection: usize,
    mut stream: TcpStream,
    serving: &Mutex<Serving<F>>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let mut buffer = vec![0; 1 << 20];
    while let Some(Size { head, bytes }) = read_request(&mut stream, &mut buffer)? {
        let arrived = Instant::now();
        let mut body = DefaultHasher::new();
        body.write(&buffer[head..bytes]);
        let body = body.finish();
        let mut serving = serving.lock().unwrap_or_else(PoisonError::into_inner);
        let number = serving.exchanges.len();
        (serving.look)(number);
        thread::sleep(serving.think);
        let Some(reply) = serving.replies.get(number) else { return Ok(()) };
        // Taken before, because the client may be at work before this thread goes on.
        let replied = Instant::now();
        stream.write_all(reply)?;
        serving.exchanges.push(Exchange { arrived, replied, bytes, body, connection });
    }
    Ok(())
}

/// Bytes of a request.
#[derive(Clone, Copy)]
struct Size {
    /// Those of its head.
    head: usize,
    /// All.
    bytes: usize,
}

/// Reads one request and gives its size; `None` when the connection is over.
fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Size>> {
    let (mut filled, mut size) = (0, None);
    loop {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(None),
            Ok(more) => filled += more,
            // A process that ends leaves its connection as it is.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error),
        }
        size = match size {
            None => size_of_request(&buffer[..filled])?,
            known => known,
        };
        match size {
            Some(size) if filled >= size.bytes => return Ok(Some(size)),
            Some(size) if buffer.len() < size.bytes => buffer.resize(size.bytes, 0),
            _ => {}
        }
    }
}

/// The size of the request that begins so; `None` while its head is not whole.
fn size_of_request(bytes: &[u8]) -> io::Result<Option<Size>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(bytes).map_err(Error::other)? else {
        return Ok(None);
    };
    let length = request.headers.iter().find(|h| h.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok());
    Ok(Some(Size { head, bytes: head + length.unwrap_or(0) }))
}
