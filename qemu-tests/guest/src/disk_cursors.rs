//! Tests of the cursors of disks, through the traits of the crate `embedded-io`. `tests/disk` on the host runs these
//! tests, because they need a disk.

use kernel::cancel::ContextError;
use kernel::disk::{DiskCursor, DiskError, disks};
use kernel::embedded_io::{Error as _, ErrorKind, Read, ReadExactError, Seek, SeekFrom, Write};
use kernel::prelude::*;

use crate::disks::WAYS;

/// Returns a seek to `position` of a kind that `random` chooses.
fn seek_to(position: u64, length: u64, cursor: &mut DiskCursor<'_>, random: &mut fastrand::Rng) -> SeekFrom {
    let distance = |from: u64| position.wrapping_sub(from).cast_signed();
    match random.u32(..3) {
        0 => SeekFrom::Start(position),
        1 => SeekFrom::End(distance(length)),
        _ => SeekFrom::Current(distance(cursor.stream_position().unwrap())),
    }
}

/// Two cursors read and write ranges with random offsets and lengths, also past the end of the disk. Each call returns
/// what the same call on a copy of the disk in memory would return. Plain calls read what the cursors have written.
fn cursors_agree_with_plain_calls() {
    let disk = &disks()[0];
    let length = disk.len_bytes();
    let mut model = vec![0; usize::try_from(length).unwrap()];
    assert_eq!(disk.read_at(0, &mut model), Ok(model.len()));
    let mut random = fastrand::Rng::with_seed(1);
    let mut cursors = WAYS.map(|way| way(disk).cursor());
    let mut positions = [0; 2];
    for step in 0..400 {
        let (number, position) = (random.usize(..2), random.u64(..length + 2_000));
        let cursor = &mut cursors[number];
        assert_eq!(cursor.stream_position(), Ok(positions[number]), "the cursors share a position");
        let target = seek_to(position, length, cursor, &mut random);
        assert_eq!(cursor.seek(target), Ok(position), "{target:?} in step {step}");
        let start = model.len().min(usize::try_from(position).unwrap());
        let longest = [2, 600, 70_000][random.usize(..3)];
        let mut bytes = vec![0xee; random.usize(..longest)];
        let end = model.len().min(start + bytes.len());
        if random.bool() {
            assert_eq!(cursor.read(&mut bytes), Ok(end - start), "read at {position} in step {step}");
            let (read, rest) = bytes.split_at(end - start);
            assert!(read == &model[start..end], "read at {position} in step {step}");
            assert!(rest.iter().all(|&byte| byte == 0xee), "what was not read is not written to");
        } else {
            random.fill(&mut bytes);
            let expected = if start == end && !bytes.is_empty() { Err(DiskError::OutOfRange) } else { Ok(end - start) };
            assert_eq!(cursor.write(&bytes), expected, "write at {position} in step {step}");
            model[start..end].copy_from_slice(&bytes[..end - start]);
            let mut written = vec![0; end - start];
            assert_eq!(disk.read_at(start as u64, &mut written), Ok(written.len()));
            assert!(written == model[start..end], "write at {position} in step {step}");
        }
        positions[number] = position + (end - start) as u64;
    }
    cursors.iter_mut().for_each(|cursor| cursor.flush().unwrap());
    let mut content = vec![0; model.len()];
    cursors[0].rewind().unwrap();
    cursors[0].read_exact(&mut content).unwrap();
    assert!(content == model);
}
guest_test!(cursors_agree_with_plain_calls, hidden);

fn cursor_ends_where_the_disk_ends() {
    let disk = &disks()[0];
    let length = disk.len_bytes();
    let mut cursor = disk.asynchronous().cursor();
    assert_eq!(cursor.seek(SeekFrom::End(-3)), Ok(length - 3));
    // A write that does not fit writes what fits. The next one has no room.
    assert_eq!(cursor.write_all(&[1, 2, 3, 4]), Err(DiskError::OutOfRange));
    assert_eq!(cursor.stream_position(), Ok(length));
    assert_eq!(cursor.write(&[5]).map_err(|error| error.kind()), Err(ErrorKind::WriteZero));
    assert_eq!(cursor.write(&[]), Ok(0));
    assert_eq!(cursor.read(&mut [0; 4]), Ok(0));
    assert_eq!(cursor.seek(SeekFrom::Current(-4)), Ok(length - 4));
    let mut bytes = [0; 5];
    assert_eq!(cursor.read_exact(&mut bytes), Err(ReadExactError::UnexpectedEof));
    assert_eq!(bytes[1..4], [1, 2, 3]);
    for past in [SeekFrom::End(1), SeekFrom::Start(u64::MAX)] {
        cursor.seek(past).unwrap();
        assert_eq!((cursor.read(&mut [0; 4]), cursor.write(&[6])), (Ok(0), Err(DiskError::OutOfRange)));
    }
    // After a seek that fails, the position is the old one.
    cursor.seek(SeekFrom::Start(7)).unwrap();
    let before_the_beginning = [SeekFrom::Current(-8), SeekFrom::End(-1 - length.cast_signed())];
    for target in before_the_beginning.into_iter().chain([SeekFrom::Current(i64::MIN), SeekFrom::End(i64::MIN)]) {
        let error = cursor.seek(target).unwrap_err();
        assert_eq!((error, error.kind()), (DiskError::InvalidPosition, ErrorKind::InvalidInput), "{target:?}");
        assert_eq!(cursor.stream_position(), Ok(7));
    }
    cursor.seek(SeekFrom::Start(u64::MAX)).unwrap();
    assert_eq!(cursor.seek(SeekFrom::Current(1)), Err(DiskError::InvalidPosition));
    assert_eq!(disk.len_bytes(), length);
}
guest_test!(cursor_ends_where_the_disk_ends, hidden);

/// The context is cancelled while the cursor exists. Reads and writes then fail, although the device may still do them.
fn limit_of_a_cursor_ends_its_calls() {
    let (context, cancel) = Context::background().with_cancel();
    let mut cursor = disks()[0].asynchronous().cursor_until(&context);
    cursor.write_all(&[1; 700]).unwrap();
    cursor.rewind().unwrap();
    cancel.cancel();
    let error = DiskError::Limit(ContextError::Canceled);
    assert_eq!(error.kind(), ErrorKind::Other);
    assert_eq!(cursor.read(&mut [0; 700]), Err(error));
    assert_eq!(cursor.write(&[2; 700]), Err(error));
    assert_eq!(cursor.stream_position(), Ok(0));
}
guest_test!(limit_of_a_cursor_ends_its_calls, hidden);
