"""A model that comes along: fetched once, served by llama.cpp in a child process."""
