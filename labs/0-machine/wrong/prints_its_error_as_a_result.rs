//! The message goes to the standard output.
//! fails: status, machine

// ANCHOR: program
fn main(arguments: &[&str]) -> i32 {
    let mut squares = Vec::new();
    for argument in arguments {
        let Ok(number) = argument.parse::<u64>() else {
            println!("first: `{argument}` is no number");
            return 1;
        };
        squares.push(go(move || number * number));
    }
    let sum: u64 = squares.into_iter().map(|square| square.join().expect("no panic")).sum();
    println!("{sum}");
    0
}
// ANCHOR_END: program
