"""Files and S3 objects by their uri: list, read, write, and their errors as sentences."""
