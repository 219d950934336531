"""Century (Akbulut et al., ICLR 2025): its tables and figures."""
