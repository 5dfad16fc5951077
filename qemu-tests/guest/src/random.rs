//! Tests of random numbers.

use alloc::collections::BTreeSet;

use kernel::cancel::ContextError;
use kernel::platform::{Limit, scheduler};
use kernel::prelude::*;
use kernel::{fill_random, fill_random_until, random, random_until};

/// Many Gs fill buffers of many lengths at the same time. No group of eight bytes occurs twice.
fn random_bytes_fill_every_length_and_differ() {
    let lengths = [0, 1, 7, 8, 9, 64, 4000, 10_000];
    let fillers = lengths.iter().cycle().take(40).map(|&length| {
        go(move || {
            // The bytes before and after the filled range must not change.
            let mut bytes = vec![0; length + 16];
            fill_random(&mut bytes[8..length + 8]);
            assert!(bytes[..8].iter().chain(&bytes[length + 8..]).all(|&byte| byte == 0));
            bytes[8..length + 8].chunks_exact(8).map(|word| word.try_into().unwrap()).collect::<Vec<[u8; 8]>>()
        })
    });
    let fillers: Vec<_> = fillers.collect();
    let words: Vec<_> = fillers.into_iter().flat_map(|filler| filler.join().unwrap()).collect();
    assert_eq!(words.len(), 5 * (1 + 1 + 8 + 500 + 1250));
    assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len());
    let ones: u32 = words.iter().map(|&word| u64::from_le_bytes(word).count_ones()).sum();
    let average = f64::from(ones) / words.len() as f64;
    assert!((31.0..33.0).contains(&average), "{average} of 64 bits are set");
}
guest_test!(random_bytes_fill_every_length_and_differ, smp = &[1, 8]);

/// A G that waits for the entropy device does not block its M.
fn random_numbers_need_no_further_m() {
    let scheduler = scheduler().unwrap();
    let before = (scheduler.machines().count(), scheduler.counts().handoffs);
    let numbers: BTreeSet<u64> = (0..100).map(|_| random()).collect();
    assert_eq!(numbers.len(), 100);
    assert_eq!((scheduler.machines().count(), scheduler.counts().handoffs), before);
}
guest_test!(random_numbers_need_no_further_m, smp = &[1], isolated);

/// The entropy device of this test never answers. The driver stops using such a device after two seconds. The first
/// call comes within these two seconds and waits for the device, so the limit ends this call.
fn limits_end_waits_for_a_mute_device() {
    let (context, cancel) = Context::background().with_cancel();
    cancel.cancel();
    assert_eq!(fill_random_until(&mut [0; 100], &context), Err(ContextError::Canceled));
    // The device is given up by the first call that finds the request unanswered for two seconds, even if the limit
    // ends this call. The next call gets its random numbers from the processor.
    while let Err(error) = random_until(Limit::after(Duration::from_millis(100))) {
        assert_eq!(error, ContextError::DeadlineExceeded);
    }
    assert_eq!(fill_random_until(&mut [0; 100], &context), Ok(()));
}
guest_test!(limits_end_waits_for_a_mute_device, hidden);

/// The numbers are those of the generator SplitMix64.
fn seed_determines_all_random_numbers() {
    let numbers: Vec<u64> = (0..3).map(|_| random()).collect();
    assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
}
guest_test!(seed_determines_all_random_numbers, smp = &[1], options = &["seed=1234567"], isolated);
