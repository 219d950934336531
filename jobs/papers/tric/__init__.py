"""TRIC (Pokrywka et al., 2023): its tables and figures."""
