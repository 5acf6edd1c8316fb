"""Child processes: started isolated, watched from spawn to burial, and gone when this program is."""
