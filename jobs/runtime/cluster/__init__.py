"""The Ray that a job starts or joins, its processes and machines."""
