"""Where `fetch` gets pictures from: `plan` of each module says which units there are and how they are fetched."""
