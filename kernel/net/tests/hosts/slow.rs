//! Both ends of a connection write, and read slowly, so that their windows close again and again.

use super::*;

/// Writes `sent` in pieces, some of which fill the window of the peer exactly, with pauses.
fn write_in_pieces(stream: &TcpStream, mut sent: &[u8], random: &mut fastrand::Rng) {
    while !sent.is_empty() {
        let bytes = random.choice([1, 1_000, 1_460, 65_535, 65_536, 100_000]).unwrap_or(1);
        let (piece, rest) = sent.split_at(bytes.min(sent.len()));
        stream.write_all(piece).unwrap();
        sent = rest;
        pause(random);
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

/// Reads until the end, with pauses in which the window closes.
fn read_slowly(stream: &TcpStream, random: &mut fastrand::Rng) -> Vec<u8> {
    let (mut received, mut buffer) = (Vec::new(), vec![0; 65_536]);
    loop {
        let most = if random.bool() { 2_000 } else { buffer.len() };
        match stream.read(&mut buffer[..random.usize(1..=most)]).unwrap() {
            0 => return received,
            count => received.extend_from_slice(&buffer[..count]),
        }
        pause(random);
    }
}

fn pause(random: &mut fastrand::Rng) {
    let most = random.choice([1, 1, 1, 20, 3_000]).unwrap_or(1);
    sleep(Duration::from_millis(random.u64(..most)));
}

/// Sends `bytes` bytes each way.
fn crosses_slowly(shards: usize, conditions: Conditions, bytes: usize, seed: u64) {
    let perfect = Conditions::default();
    with_pair_on(Config { seed, ..Config::default() }, shards, perfect, move |network, server, client| {
        let listener = TcpListener::bind_on(server, "0.0.0.0:7").unwrap();
        let near = connect(client, 7).unwrap();
        let (far, _) = listener.accept().unwrap();
        // Frames are lost only from now on: a listener soon drops a connection whose handshake has not ended.
        network.set_conditions(conditions);
        let mut random = fastrand::Rng::with_seed(seed);
        let sent: Vec<u8> = core::iter::repeat_with(|| random.u8(..)).take(bytes).collect();
        scope(|scope| {
            for (number, stream) in [&near, &far].into_iter().enumerate() {
                let sent = &sent;
                let mut random = fastrand::Rng::with_seed(seed + number as u64);
                let mut other = random.fork();
                let _ = scope.go(move || write_in_pieces(stream, sent, &mut random));
                let _ = scope.go(move || assert!(read_slowly(stream, &mut other) == *sent));
            }
        });
        drop((near, far, listener));
        // Each end may have to wait a minute for the next attempt.
        let end = now() + Duration::from_secs(600);
        while [server, client].map(Stack::usage) != [Usage::default(); 2] {
            assert!(now() < end, "{:?}", [server, client].map(Stack::usage));
            sleep(Duration::from_secs(1));
        }
    });
}

fn cross_slowly(conditions: Conditions, seeds_of_shards: [(usize, &[u64]); 2]) {
    for (shards, seeds) in seeds_of_shards {
        seeds.iter().for_each(|&seed| crosses_slowly(shards, conditions, 200_000, seed));
    }
}

/// The reader has ended its own data before, so the writer is in the state LAST-ACK when it has written all.
#[test]
fn reader_that_has_ended_its_data_may_pause_for_ten_minutes() {
    const BYTES: usize = 100_000;
    with_pair(Conditions::default(), 3, |_, server, client| {
        let listener = TcpListener::bind_on(server, "0.0.0.0:7").unwrap();
        let near = connect(client, 7).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        assert_eq!(far.read(&mut [0]), Ok(0));
        far.write_all(&vec![7; BYTES]).unwrap();
        far.shutdown(Shutdown::Write).unwrap();
        sleep(Duration::from_secs(600));
        let (mut received, mut buffer) = (0, vec![0; 65_536]);
        while received < BYTES {
            received += near.read(&mut buffer).unwrap();
        }
        assert_eq!((received, near.read(&mut buffer)), (BYTES, Ok(0)));
    });
}

/// With these seeds, one side once waited in vain for the last byte of a window. If 20 % are lost, a few in a thousand seeds
/// end with a peer that is silent for 300 s.
#[test]
fn slow_readers_get_all_data_although_frames_are_lost() {
    let conditions = |loss| Conditions { loss, ..Conditions::default() };
    cross_slowly(conditions(0.01), [(1, &[1, 122, 133]), (2, &[71, 89, 148])]);
    cross_slowly(conditions(0.05), [(1, &[58, 70]), (2, &[105, 123, 131, 132])]);
    cross_slowly(conditions(0.2), [(1, &[0, 1, 2, 3, 4]), (2, &[5, 6, 7, 8, 9])]);
}

#[test]
fn slow_readers_get_all_data_although_frames_are_lost_repeated_and_reordered() {
    let delay = Duration::from_millis(2);
    let conditions = Conditions { loss: 0.05, duplicate: 0.05, reorder: 0.1, delay, ..Conditions::default() };
    cross_slowly(conditions, [(1, &[1_053, 1_056, 1_127]), (2, &[1_040, 1_056, 1_100, 1_148])]);
}
