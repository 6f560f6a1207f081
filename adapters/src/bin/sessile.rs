//! The program `sessile`.

fn main() -> std::process::ExitCode {
    sessile::cli::main()
}
