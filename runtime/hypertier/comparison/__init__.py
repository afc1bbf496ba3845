"""Strategies of a running router side by side: one load through each in turns, and what surely differs."""
