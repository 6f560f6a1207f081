//! The program `sessile`, built where its tests find it.

fn main() -> std::process::ExitCode {
    sessile::cli::main()
}
