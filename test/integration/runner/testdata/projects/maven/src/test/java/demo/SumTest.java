package demo;

import static org.junit.Assert.assertEquals;

import org.junit.Test;

public class SumTest {
    @Test
    public void sums() {
        assertEquals(5, Sum.of(2, 3));
    }
}
