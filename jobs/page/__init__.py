"""The report's page: `model` says what it shows, `render` makes one self-contained HTML file of it."""
