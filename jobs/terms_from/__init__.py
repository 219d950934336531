"""Sources of search terms: a dump of a knowledge graph, and language models' lists of titles."""
