"""The local viewer: tables in a DuckDB database, pages rendered on the server, and corrections of labels."""
