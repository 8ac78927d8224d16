"""What an instructor sends back and keeps: feedback pages, gradebooks, and a page on the exercises themselves."""
