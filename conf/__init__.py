"""The configuration files, as a package so that an installed remine has them too."""
