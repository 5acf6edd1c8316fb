"""Stand-ins for the outside world: a scripted LLM server and a fake `claude`.

They are real servers and real processes, so a test exercises the same sockets, pipes and signals as a user does.
"""
