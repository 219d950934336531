"""The report's page: `model` has its contents, `build` collects them, `render` writes one self-contained HTML file."""
