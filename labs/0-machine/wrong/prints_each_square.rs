//! Each square is printed, and no sum.
//! fails: sum, status, machine

// ANCHOR: program
fn main(arguments: &[&str]) -> i32 {
    for argument in arguments {
        let Ok(number) = argument.parse::<u64>() else {
            eprintln!("first: `{argument}` is no number");
            return 1;
        };
        println!("{}", go(move || number * number).join().expect("no panic"));
    }
    0
}
// ANCHOR_END: program
