"""Audit of remine's dependencies: a software bill of materials, and known vulnerabilities (`make check`)."""
