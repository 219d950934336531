"""Bringing Rome to Life (Ströbel et al., CHR 2024): its tables and figures."""
