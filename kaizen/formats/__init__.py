"""How are moments written where a page does not say it itself?"""
