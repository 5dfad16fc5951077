//! Converts a file with a trace, in the layout of [`gmp_sched::trace::memory`], to a page for browsers and a file for
//! Perfetto.
//!
//! ```text
//! cargo run -p timeline --example convert -- TRACE FILE     writes FILE.html and FILE.json
//! ```

use std::error::Error;
use std::fs::File;
use std::path::Path;

use timeline::Trace;
use timeline::memory::Reader;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [trace, file] = &arguments[..] else { return Err("expected two arguments: TRACE FILE".into()) };
    let mut reader = Reader::new(File::open(trace)?);
    reader.poll()?;
    let trace = Trace::new(reader.into_traces());
    let [json, page] = timeline::write(&trace, Path::new(file))?;
    println!("{} events, {} lost, in {} and {}", trace.events().len(), trace.lost(), json.display(), page.display());
    Ok(())
}
