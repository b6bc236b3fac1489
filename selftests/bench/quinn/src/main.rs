// SPDX-License-Identifier: GPL-2.0-only

//! Bpquinn sends bulk by QUIC of quinn, to bpquic, and says what that was like.
//!
//!     bpquinn dial ADDRESS up SECONDS CONNECTIONS [cubic|newreno|bbr]
//!     bpquinn serve ADDRESS down SECONDS CONNECTIONS [cubic|newreno|bbr]
//!
//! Each connection of dial has a socket of its own; those of serve share one. What they do is
//! said in ../quic/main.go, and the keys of the line of JSON have the same names. lost_packets are
//! those that quinn takes for lost, of all connections. All else is the default of quinn.

use std::env;
use std::error::Error;
use std::future::IntoFuture;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls;
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct as Signed, SignatureScheme};
use tokio::time::{sleep, sleep_until, timeout_at, Instant};

type Any<T> = Result<T, Box<dyn Error + Send + Sync>>;
type Verified = Result<HandshakeSignatureValid, rustls::Error>;

const SAMPLE_EVERY: Duration = Duration::from_millis(10);
const REQUEST_EVERY: Duration = Duration::from_millis(100);
const ANSWER: [u8; 100] = [0; 100];
const BLOCK: [u8; 1 << 16] = [0; 1 << 16];
const ALPN: &[u8] = b"bulk";
// That build makes.
const CERTIFICATE: &[u8] = include_bytes!(env!("BPQUINN_CERTIFICATE"));
const KEY: &[u8] = include_bytes!(env!("BPQUINN_KEY"));

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Takes any certificate.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer,
        _: &[CertificateDer],
        _: &ServerName,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(&self, _: &[u8], _: &CertificateDer, _: &Signed) -> Verified {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(&self, _: &[u8], _: &CertificateDer, _: &Signed) -> Verified {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519] // that of bpquic
    }
}

fn server_config(cc: &str) -> Any<ServerConfig> {
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![CERTIFICATE.into()], PrivatePkcs8KeyDer::from(KEY).into())?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport(cc)?);
    Ok(config)
}

fn client_config(cc: &str) -> Any<ClientConfig> {
    let mut tls = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport(cc)?);
    Ok(config)
}

fn transport(cc: &str) -> Any<Arc<TransportConfig>> {
    let mut config = TransportConfig::default();
    match cc {
        "cubic" => config.congestion_controller_factory(Arc::<CubicConfig>::default()),
        "newreno" => config.congestion_controller_factory(Arc::<NewRenoConfig>::default()),
        "bbr" => config.congestion_controller_factory(Arc::<BbrConfig>::default()),
        _ => return Err(format!("no congestion control {cc}").into()),
    };
    Ok(Arc::new(config))
}

/// All handshakes run at the same time.
async fn connections(
    is_server: bool,
    address: &str,
    count: &str,
    cc: &str,
) -> Any<Vec<Connection>> {
    let (address, count): (SocketAddr, usize) = (address.parse()?, count.parse()?);
    let mut handshakes = Vec::new();
    if is_server {
        let endpoint = Endpoint::server(server_config(cc)?, address)?;
        while handshakes.len() < count {
            let incoming = endpoint.accept().await.ok_or("the endpoint is closed")?;
            handshakes.push(tokio::spawn(incoming.into_future()));
        }
    } else {
        let config = client_config(cc)?;
        while handshakes.len() < count {
            let endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
            let connecting = endpoint.connect_with(config.clone(), address, "bpquinn")?;
            handshakes.push(tokio::spawn(connecting));
        }
    }
    let mut conns = Vec::new();
    for handshake in handshakes {
        conns.push(handshake.await??);
    }
    Ok(conns)
}

/// Writes until the time is over. What quinn has not sent by then is not sent any more.
async fn bulk_send(conn: Connection, until: Instant) -> Any<()> {
    let mut stream = conn.open_uni().await?;
    while let Ok(written) = timeout_at(until, stream.write_all(&BLOCK)).await {
        written?;
    }
    stream.reset(0u32.into())?;
    Ok(())
}

/// Returns when the first byte of the answer came.
async fn request(conn: &Connection) -> Any<Instant> {
    let (mut to, mut from) = conn.open_bi().await?;
    to.write_all(&[0]).await?;
    to.finish()?;
    from.read_exact(&mut [0]).await?;
    let first = Instant::now();
    from.read_to_end(ANSWER.len()).await?;
    Ok(first)
}

/// Sends a request each tenth of a second, and no second one before its answer.
async fn ask(conn: Connection, from: Instant, until: Instant) -> Vec<f64> {
    let mut times = Vec::new();
    let mut start = Instant::now();
    while start < until {
        let Ok(Ok(first)) = timeout_at(until, request(&conn)).await else {
            break;
        };
        if from < first {
            times.push(ms(first - start));
        }
        sleep(REQUEST_EVERY).await;
        start = Instant::now();
    }
    times
}

async fn answer(conn: Connection) {
    while let Ok((mut to, mut from)) = conn.accept_bi().await {
        tokio::spawn(async move {
            from.read_to_end(1).await?;
            to.write_all(&ANSWER).await?;
            Any::Ok(to.finish()?)
        });
    }
}

/// Prints the values below which parts of them lie.
fn percentiles(name: &str, values: &mut [f64], parts: [(&str, f64); 2]) {
    values.sort_by(f64::total_cmp);
    for (key, part) in parts {
        let index = (part * values.len() as f64) as usize;
        if let Some(value) = values.get(index).or(values.last()) {
            print!("\"{name}_{key}_ms\":{value:.6},");
        }
    }
}

/// One thread: that costs less CPU than several.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Any<()> {
    let args: Vec<String> = env::args().collect();
    let usage = "usage: bpquinn dial|serve ADDRESS up|down SECONDS CONNECTIONS [CC]";
    let [_, role, address, way, seconds, count, cc @ ..] = &args[..] else {
        return Err(usage.into());
    };
    let is_server = match (role.as_str(), way.as_str()) {
        ("dial", "up") => false,
        ("serve", "down") => true,
        _ => return Err(usage.into()),
    };
    let cc = cc.first().map_or("cubic", String::as_str);
    let took = Duration::from_secs_f64(seconds.parse()?);
    let conns = connections(is_server, address, count, cc).await?;
    let start = Instant::now();
    let (from, until) = (start + took * 2 / 5, start + took);
    let mut asking = Vec::new();
    for conn in conns.iter().cloned() {
        if is_server {
            tokio::spawn(answer(conn.clone()));
        } else {
            asking.push(tokio::spawn(ask(conn.clone(), from, until)));
        }
        tokio::spawn(async move {
            if let Err(error) = bulk_send(conn, until).await {
                eprintln!("bpquinn: {error}");
            }
        });
    }
    let mut srtt = Vec::new();
    sleep_until(from).await;
    while Instant::now() + SAMPLE_EVERY < until {
        sleep(SAMPLE_EVERY).await;
        srtt.extend(conns.iter().map(|conn| ms(conn.rtt())));
    }
    sleep_until(until + Duration::from_secs(1)).await;
    let mut requests = Vec::new();
    for times in asking {
        requests.extend(times.await?);
    }
    print!("{{");
    percentiles("srtt", &mut srtt, [("p50", 0.5), ("max", 1.0)]);
    percentiles("request", &mut requests, [("p50", 0.5), ("p99", 0.99)]);
    let lost: u64 = conns.iter().map(|c| c.stats().path.lost_packets).sum();
    println!("\"lost_packets\":{lost}}}");
    Ok(())
}
