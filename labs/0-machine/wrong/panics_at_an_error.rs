//! A wrong argument is a panic, which has the status 2.
//! fails: status, machine

// ANCHOR: program
fn main(arguments: &[&str]) -> i32 {
    let square = |argument: &&str| {
        let number: u64 = argument.parse().expect("a number");
        go(move || number * number)
    };
    let squares: Vec<_> = arguments.iter().map(square).collect();
    let sum: u64 = squares.into_iter().map(|square| square.join().expect("no panic")).sum();
    println!("{sum}");
    0
}
// ANCHOR_END: program
