//! What stands between the program and the broker, and can do what networks do.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Stands between the program and the broker, and can swallow answers. Answers name the broker's address, so that it is
/// put in its place.
pub struct Proxy {
    pub port: u16,
    /// How many answers to the end of a transaction are yet to be swallowed, with the connection.
    pub n_to_lose: Arc<AtomicU32>,
    pub n_lost: Arc<AtomicU32>,
    held: Arc<OffsetRange>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

/// Whether requests are held back.
type OffsetRange = (Mutex<bool>, Condvar);

/// Kafka's number for the request that ends a transaction.
const END_TXN: i16 = 26;

impl Proxy {
    pub fn start(broker: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (n_to_lose, n_lost, held, connections) = Default::default();
        let proxy = Proxy { port, n_to_lose, n_lost, held, connections };
        let (to_lose, lost, all) = (proxy.n_to_lose.clone(), proxy.n_lost.clone(), proxy.connections.clone());
        let held = proxy.held.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", broker)) else { continue };
                let clones = [&client, &server].map(|stream| stream.try_clone().expect("a clone"));
                all.lock().expect("no panic").extend(clones);
                let asked: Arc<Mutex<HashMap<i32, i16>>> = Arc::default();
                let (asked_too, client_too) = (asked.clone(), client.try_clone().expect("a clone"));
                let server_too = server.try_clone().expect("a clone");
                let held = held.clone();
                std::thread::spawn(move || carry_requests(client, server, &asked, &held));
                let (to_lose, lost) = (to_lose.clone(), lost.clone());
                std::thread::spawn(move || {
                    carry_answers(server_too, client_too, &asked_too, [broker, port], &to_lose, &lost);
                });
            }
        });
        proxy
    }

    /// Requests wait from now on, or go on.
    pub fn hold(&self, is_held: bool) {
        *self.held.0.lock().expect("no panic") = is_held;
        self.held.1.notify_all();
    }

    pub fn cut_all(&self) {
        for stream in self.connections.lock().expect("no panic").drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

/// One message of Kafka's protocol: what follows its length.
fn frame(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    from.read_exact(&mut frame).ok()?;
    Some(frame)
}

fn send(to: &mut TcpStream, frame: &[u8]) -> Option<()> {
    let length = (frame.len() as u32).to_be_bytes();
    to.write_all(&[&length[..], frame].concat()).ok()
}

fn carry_requests(mut client: TcpStream, mut server: TcpStream, asked: &Mutex<HashMap<i32, i16>>, held: &OffsetRange) {
    while let Some(request) = frame(&mut client) {
        drop(held.1.wait_while(held.0.lock().expect("no panic"), |is_held| *is_held).expect("no panic"));
        let kind = i16::from_be_bytes([request[0], request[1]]);
        let correlation = i32::from_be_bytes([request[4], request[5], request[6], request[7]]);
        asked.lock().expect("no panic").insert(correlation, kind);
        if send(&mut server, &request).is_none() {
            break;
        }
    }
    let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
}

fn carry_answers(
    mut server: TcpStream,
    mut client: TcpStream,
    asked: &Mutex<HashMap<i32, i16>>,
    [broker, proxy]: [u16; 2],
    to_lose: &AtomicU32,
    lost: &AtomicU32,
) {
    while let Some(mut answer) = frame(&mut server) {
        let correlation = i32::from_be_bytes([answer[0], answer[1], answer[2], answer[3]]);
        let kind = asked.lock().expect("no panic").remove(&correlation);
        let loses = |n: u32| n.checked_sub(1);
        if kind == Some(END_TXN) && to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, loses).is_ok() {
            lost.fetch_add(1, Ordering::SeqCst);
            break;
        }
        replace(&mut answer, broker, proxy);
        if send(&mut client, &answer).is_none() {
            break;
        }
    }
    let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
}

/// Puts one port in the place of another wherever it follows the host's name.
fn replace(answer: &mut [u8], from: u16, to: u16) {
    let named = |port: u16| [b"127.0.0.1", &u32::from(port).to_be_bytes()[..]].concat();
    let (from, to) = (named(from), named(to));
    let places: Vec<usize> =
        answer.windows(from.len()).enumerate().filter(|(_, w)| *w == from).map(|(at, _)| at).collect();
    places.into_iter().for_each(|at| answer[at..at + to.len()].copy_from_slice(&to));
}
