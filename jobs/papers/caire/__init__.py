"""CAIRE (Yayavaram et al., 2025): its tables."""
