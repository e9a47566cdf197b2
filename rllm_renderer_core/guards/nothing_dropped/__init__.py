"""What goes into a render shows in what comes out."""
