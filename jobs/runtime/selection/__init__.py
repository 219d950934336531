"""Which rows a job uses: random draws, and pictures that must not be used."""
