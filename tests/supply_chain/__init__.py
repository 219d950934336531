"""What remine depends on: a software bill of materials, and known vulnerabilities (`make check`)."""
