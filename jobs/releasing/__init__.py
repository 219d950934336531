"""The files of a released data set: rows without pictures and names of people, a data card and Croissant metadata."""
