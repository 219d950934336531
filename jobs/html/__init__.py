"""What all pages share: formats of numbers and links, small copies of pictures, style."""
