//! Doug McIlroy's power series. A series is a G that receives requests for its next coefficient. Each request is a
//! channel for the answer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use gmp_sched::select;

use super::platform::{Receiver, Sender, channel, go};

/// A fraction in lowest terms.
type Ratio = (i64, i64);
type Series = Sender<Sender<Ratio>>;

fn reduced(numerator: i64, denominator: i64) -> Ratio {
    let (mut a, mut b) = (numerator.abs(), denominator.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (numerator / a.max(1), denominator / a.max(1))
}

fn sum(a: Ratio, b: Ratio) -> Ratio {
    reduced(a.0 * b.1 + b.0 * a.1, a.1 * b.1)
}

fn product(a: Ratio, b: Ratio) -> Ratio {
    reduced(a.0 * b.0, a.1 * b.1)
}

fn next(series: &Series) -> Ratio {
    let (reply, answer) = channel(0);
    series.send(reply).unwrap();
    answer.recv().unwrap()
}

/// Makes a series. On each request, `coefficient` returns its next coefficient.
fn series(mut coefficient: impl FnMut() -> Ratio + Send + 'static) -> Series {
    let (requests, asked) = channel::<Sender<Ratio>>(0);
    go(move || asked.iter().for_each(|reply| reply.send(coefficient()).unwrap())).detach();
    requests
}

/// Returns two copies of the series. A coefficient that only one copy has requested so far is stored for the other
/// copy.
fn split(source: Series) -> [Series; 2] {
    let (requests, mut asked): (Vec<_>, Vec<_>) = (0..2).map(|_| channel::<Sender<Ratio>>(0)).unzip();
    go(move || {
        let (mut kept, mut open) = ([VecDeque::new(), VecDeque::new()], 2);
        while open > 0 {
            let (side, request) = select! {
                recv(asked[0]) -> request => (0, request),
                recv(asked[1]) -> request => (1, request),
            };
            let Ok(reply) = request else {
                asked[side] = Receiver::never();
                open -= 1;
                continue;
            };
            let coefficient = kept[side].pop_front().unwrap_or_else(|| {
                let coefficient = next(&source);
                kept[1 - side].push_back(coefficient);
                coefficient
            });
            reply.send(coefficient).unwrap();
        }
    })
    .detach();
    requests.try_into().unwrap()
}

fn scaled(factor: Ratio, of: Series) -> Series {
    series(move || product(factor, next(&of)))
}

fn added(a: Series, b: Series) -> Series {
    series(move || sum(next(&a), next(&b)))
}

/// Returns the product of the series and x.
fn shifted(of: Series) -> Series {
    let mut first = true;
    series(move || if core::mem::take(&mut first) { (0, 1) } else { next(&of) })
}

/// Returns the product F G = f g + x (f G' + g F' + x F' G'), where f and g are the first coefficients of the two
/// series. F' and G' are the series of their other coefficients.
fn multiplied(a: Series, b: Series) -> Series {
    let mut state = Some((a, b));
    let mut rest = None;
    series(move || {
        let Some((a, b)) = state.take() else { return next(rest.as_ref().unwrap()) };
        let (first_a, first_b) = (next(&a), next(&b));
        let ([a, more_a], [b, more_b]) = (split(a), split(b));
        let outer = added(scaled(first_a, b), scaled(first_b, a));
        rest = Some(added(outer, shifted(multiplied(more_a, more_b))));
        product(first_a, first_b)
    })
}

/// Returns the series with the first coefficient 1 that equals its own derivative.
fn exponential() -> Series {
    let (mut n, mut last) = (0, (1, 1));
    series(move || {
        if n > 0 {
            last = product(last, (1, n));
        }
        n += 1;
        last
    })
}

/// The square of the exponential series is the series of exp(2x).
fn square_of_the_exponential() {
    let square = multiplied(exponential(), exponential());
    let coefficients: Vec<_> = (0..7).map(|_| next(&square)).collect();
    assert_eq!(coefficients, [(1, 1), (2, 1), (2, 1), (4, 3), (2, 3), (4, 15), (4, 45)]);
}
shared_test!(square_of_the_exponential);
