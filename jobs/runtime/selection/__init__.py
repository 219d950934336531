"""Selection of the rows that a job uses: random draws, and exclusions of pictures."""
